"""Tables that travel: bundles, seeds, remotes and the files of neighbours. Imports the store and the device room only."""
