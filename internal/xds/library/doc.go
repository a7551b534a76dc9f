// Package library holds what is to be sent to whom. A shelf is a set of named resources of one type, in the order of their last
// change. A proxy sees a type through a stack of shelves, in which a higher shelf shadows a lower one. The library is published
// turn by turn; a reader sees turn n or turn n+1, never a mix.
//
// Names are strings at the edges alone. Within, a name is an entry of the library's catalog, with a small number by which shelves
// and streams find what they know of it: a request's names are looked up once, a resource's when it is published. A name that
// nothing was published under has no number. The catalog forgets what nobody holds.
//
// A resource is encoded once, framed for both protocols; its frames are shared by all responses that carry it.
//
// It must not know what a client asked for, holds or answered: that is the protocol's. It imports nothing of ours but paged.
package library
