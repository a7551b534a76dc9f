// Package live answers whether a version of an object, or a turn, is in force on all proxies, and on which it is not. It asks by turn: an
// object's version came into force in a turn, and each stream knows up to which turn its client has acknowledged everything. It only reads.
package live
