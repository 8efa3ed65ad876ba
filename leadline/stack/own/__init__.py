"""An application of one's own, as its stack file tells it: command, data, audits, knobs (leadline.model.ownstack)."""
