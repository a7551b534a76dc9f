// Package installing is `pilotctl install` and `pilotctl uninstall`: flags, files of values, and the printed text. Package install does the
// work.
package installing
