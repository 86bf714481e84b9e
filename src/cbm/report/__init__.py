"""The report page: run directories in, one self-contained HTML file out, or the same page live on localhost.

`data.py` turns a run into numbers for the page, `media.py` chooses films and pictures, `page.py` builds the file from
`static/`, and `server.py` serves it during training. `runs/labels.py` says which runs belong together.
"""
