// Package library holds the resources that each proxy is sent. A shelf is a set of named resources of one type, in the order of their last
// change. A proxy sees a type through a stack of shelves: a higher shelf shadows a lower one. The library is published turn by turn; a
// reader sees turn n or turn n+1, never a mix.
//
// Names are strings only at the edges. Within, a name is an entry of the library's catalog. Shelves and streams find their data of it by
// its small number: a request's names are looked up once, a resource's when it is published. If nothing was published under a name, it has
// no number. The catalog drops entries without a holder.
//
// A resource is encoded once, framed for both protocols; its frames are shared by all responses that carry it.
//
// It must not know what a client asked for, holds or answered: the protocol knows that. It imports only paged and xdstype of this module.
package library
