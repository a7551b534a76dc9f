// Package message fills proto messages from trees by the rules of proto's JSON form (https://protobuf.dev/programming-guides/json/).
// Unlike the libraries it needs no text in between, and says of every mistake which field it is in.
//
// It must not know what a message is for.
package message
