// Package issued is the record of issued certificates: in files, a file a day, or in a store that several control planes share. It knows
// serial numbers, identities and ends, and not why they are looked up.
package issued
