"""Which modules of mitmproxy the proxy imports."""

import subprocess
import sys


def test_only_needed_addons_are_imported_and_all_of_them_can_be_imported_later(start):
    code = """if True:
        import sys
        from wiretape_proxy.cli import only_needed_addons
        with only_needed_addons():
            import wiretape_proxy.proxy_runner
        assert "mitmproxy.addons.proxyserver" in sys.modules
        assert not {"flask", "ldap3", "mitmproxy.addons.onboarding", "mitmproxy.addons"} & set(sys.modules)
        from mitmproxy.addons import default_addons
        assert len(default_addons()) > 20
        with only_needed_addons():
            assert "default_addons" in dir(sys.modules["mitmproxy.addons"])
    """
    with start([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) as process:
        assert (process.communicate()[1], process.returncode) == ("", 0)
