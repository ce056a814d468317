PROBES = {}
