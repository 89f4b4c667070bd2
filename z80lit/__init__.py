__version__ = "0.1.0"

def load_ipython_extension(ipython):
    "What `%load_ext z80lit` calls: the magic `%%z80`"
    from z80lit.lab import load_ipython_extension
    load_ipython_extension(ipython)
