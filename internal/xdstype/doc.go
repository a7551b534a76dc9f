// Package xdstype lists the types of resource that proxies and agents are sent, with everything that the rest of the program has to
// know about a type: its URL, its short name, when it is sent, how it is requested. A new type is a new row here. It must not know
// how resources are made, nor how they are sent.
package xdstype
