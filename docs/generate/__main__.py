"""`python -m docs.generate`: writes the generated pages of docs/reference. Called by `make docs`."""

from docs.generate.pages import write_pages

write_pages()
