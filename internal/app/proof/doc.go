// Package proof holds the identity that a stream proved for its proxy. It derives the name of the proxy from it, and decides which
// resources a stream without proof must not get. It carries the identity in the stream's context from secure, which verifies it, to
// session, which keeps it, and reads for both how a client describes its proxy.
//
// It must not know how something is proved.
package proof
