"""The test cluster: a real Kubernetes on this machine, from its own programs, without a registry.

`python tests/e2e/cluster up|down|status|kubeconfig|load` is its command line. From the bottom:
`places` (folders, addresses, versions), `tools` (programs, built once), `machine` (what must be
there), `certificates`, `rendered` (every configuration, as values), `components` (what runs, in
which order), `processes` (started, found again, ended), `network`, `containers`, `images`,
`volumes` and `provisioner` (claims become folders), `cluster` (up and down).
"""
