// Package audit compares, while the program runs, what proxies were sent with the tables that it was made of, and some rows with what
// they read.
package audit
