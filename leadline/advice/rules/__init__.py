"""Rules of the layers: each looks at a trial and may advise."""
