"""The report page: run directories in, one self-contained HTML file out, or the same page live on localhost.

`labels.py` says which runs belong together, `data.py` turns a run into numbers for the page, `media.py` chooses films
and pictures, `page.py` puts the file together out of `static/`, `server.py` serves it while training goes on.
"""
