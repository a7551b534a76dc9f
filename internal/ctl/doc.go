// Package ctl holds the verbs of pilotctl: each reads a debug page of a control plane and shows it as a table, JSON or YAML.
// It knows the pages' types (admin) and how to print; everything else it asks the control plane for.
package ctl
