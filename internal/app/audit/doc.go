// Package audit compares, while the program runs, the resources that proxies were sent with the tables that they were made from. It
// also compares some rows with a new computation of them.
package audit
