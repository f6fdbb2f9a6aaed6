"""Report and debugger: looks at recordings and judges them."""
