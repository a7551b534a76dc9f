// Package contest says by which other names clients call a host, and where another host may be that has such a name as its own.
// Everything here is pure.
//
// It must not know which hosts there are.
package contest
