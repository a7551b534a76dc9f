// Package message fills proto messages from trees by the rules of proto's JSON form (https://protobuf.dev/programming-guides/json/). Unlike
// the libraries it needs no text in between, and names the field of every mistake.
//
// It must not know what a message is for.
package message
