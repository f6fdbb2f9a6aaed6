"""The page of the debugger: JavaScript modules, style and HTML.

`bundle` makes the page, `wiretape_inspect.timeline_json` the JSON that it reads.  `main.js` starts the page with the
data of an exported file (`embedded_data.js`) or of the debugger (`api_client.js`); `app.js` puts its parts together.
"""
