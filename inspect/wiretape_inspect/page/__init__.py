"""The page of the debugger: JavaScript modules, style and HTML, and the data that they read.

`bundle` makes the page, `page_data` the JSON.  `main.js` starts the page with the data of an exported file
(`embedded_data.js`) or of the debugger (`api_client.js`); `app.js` puts its parts together.
"""
