// What every pod of the test cluster is held by.
module iggykube.dev/e2e/pause

go 1.25
