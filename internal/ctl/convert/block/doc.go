// Package block has the match blocks of rules of requests, and their order: in a VirtualService the first one counts, in the Gateway API
// the most specific one. Overtakes compares the two, and KeepBack adds matches that make them agree. It is pure, and must not know objects.
package block
