"""List known advisories about the pinned dependencies, if their data can be reached.

python .ci/audit.py PIP_AUDIT requirements.lock
"""

import json
import subprocess
import sys

TIMEOUT_S = 300


def main(program: str, lock: str) -> None:
    """Print one line for each advisory.  Never fails: what is published today is no defect of a change."""
    command = [program, "--requirement", lock, "--no-deps", "--disable-pip", "--format=json", "--progress-spinner=off"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        packages = json.loads(done.stdout)["dependencies"]
    except (subprocess.TimeoutExpired, OSError, ValueError):
        packages = []
    audited = [package for package in packages if "vulns" in package]
    print(f"Advisories are available for {len(audited)} of {len(packages)} packages.")
    if not audited:
        print("Nothing was audited: the index that is used here has no advisories, or cannot be reached.")
    for package in audited:
        for advisory in package["vulns"]:
            fixed = ", ".join(advisory["fix_versions"]) or "no version"
            print(f"{package['name']} {package['version']}: {advisory['id']}, fixed in {fixed}")


if __name__ == "__main__":
    main(*sys.argv[1:])
