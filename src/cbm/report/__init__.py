"""The report page: run directories in, one self-contained HTML file out, or the same page live on localhost.

`labels.py` says which runs belong together, `data.py` turns a run into numbers for the page, `media.py` chooses films
and pictures, `page.py` builds the file from `static/`, `server.py` serves it during training.
"""
