// Package memory sets how the control plane's memory is collected, and gives memory back to the system after bursts of work.
package memory
