"""Where trials run: processes of this machine (`local`), and what this machine is like (`probe`)."""
