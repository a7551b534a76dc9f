// Package installing is `pilotctl install` and `pilotctl uninstall`: flags, files of values, and what is printed. What is done stands in
// package install.
package installing
