// Package xdstype lists the types of resource that proxies and agents are sent, each with all that the rest of the program has to know
// of the type itself: its URL, its short name, when it is sent, how it is asked for. One more type is one more row here. It must not know
// how resources are made, nor how they are sent.
package xdstype
