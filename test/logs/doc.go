// Package logs provokes response flags and response code details in real Envoys, and asks pilotctl explain --log about the lines that they
// write into their access logs. Most Envoys are those of a mesh (package live) with rules in a folder, so that the answers name objects
// with file and line; settings that the control plane never makes are those of Envoys with configurations of their own (static).
package logs
