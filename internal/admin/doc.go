// Package admin shows what the control plane knows: metrics, readiness and the debug pages, under Istio's names where
// Istio has them, so that dashboards and scripts go on working. It reads the graph and the streams' status and changes
// neither; the pages' types (folder page) are what pilotctl decodes.
package admin
