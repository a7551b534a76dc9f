// Package admin shows the state of the control plane: metrics, readiness and the debug pages, under Istio's names if Istio has them, so
// that dashboards and scripts go on working. It reads the graph and the streams' status and changes neither; pilotctl decodes the pages'
// types (folder page).
package admin
