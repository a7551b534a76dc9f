// Package admin shows the state of the control plane: metrics, readiness and the debug pages, under Istio's names if Istio has them, so
// that dashboards and scripts go on working. It reads the graph and the streams' status and changes neither; pilotctl decodes the pages'
// types (folder page). A change that is posted is read in folder change; folder asked has what pages need that are questions. Folder
// message decodes resources, folder scrape counts when Prometheus asks, folder tally counts events, folder bounded
// bounds the names that become labels,
// and folder targets makes what Prometheus reads to find agents.
package admin
