// Package fairway names the project's version; everything else stands below internal, cmd and test.
package fairway

// Version is what the programs call themselves.
const Version = "0.1.0"
