// Package proof is what a stream proved of its proxy, and what follows: under which name its proxy is known, and what is withheld
// from a stream that proved nothing. It hands that from who finds it out (secure) to who keeps it (session), through the stream's
// context, and reads what a client says of its proxy for both.
//
// It must not know how something is proved.
package proof
