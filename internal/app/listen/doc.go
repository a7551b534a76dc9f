// Package listen opens the control plane's addresses and serves its pages there. A taken port fails the start at once.
package listen
