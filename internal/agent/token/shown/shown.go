// Package shown names where an agent's token is, and how it is shown. Programs on any system may import it.
package shown

// Header is the HTTP header, and the key of gRPC metadata, that a token is shown in.
const Header = "x-fairway-token"

// File is a token's name in the agent's folder; its owner alone may read it.
const File = "token"
