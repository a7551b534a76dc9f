// Package filters has the words for what a route of the Gateway API says, and no field of a VirtualService can: filters of its own, which
// ask authorizers and keep sessions, shares and timeouts. Route is the place to start reading.
//
// It must not know how they are written (package native), nor Envoy's messages (envoy/route/own).
package filters

import (
	"fmt"
	"strconv"
	"time"

	"fairway/internal/mesh"
)

// Route is what the Gateway API says of a route of requests, and a VirtualService cannot.
type Route struct {
	// Missing is the status of requests to a destination that is not there; 0: 503.
	Missing uint32
	// Prefix takes the place of the path prefix that a request was matched by, as whole path elements
	// (HTTPPathModifier.replacePrefixMatch). nil: paths stay, or the VirtualService says how they change.
	Prefix *string
	// TryTimeout is the timeout of each try (HTTPRouteTimeouts.backendRequest); 0: that of the whole request.
	TryTimeout time.Duration
	// Upto is the share of the requests that the route and those before it with the same matches take, of a million; 0: all that match.
	Upto uint32
	// Authorizers are asked one after another whether a request may go on (HTTPExternalAuthFilter).
	Authorizers []Authorizer
	// Session keeps the requests of a client at one endpoint (SessionPersistence).
	Session Session
	// Picker chooses the endpoint of each request; zero: the cluster does.
	Picker mesh.Picker
}

// String returns all of the route: it is part of the content of the object that the route is in.
func (r Route) String() string {
	out := fmt.Sprint(r.Missing, r.TryTimeout, r.Upto)
	if r.Prefix != nil {
		out += " " + strconv.Quote(*r.Prefix)
	}
	if len(r.Authorizers) > 0 {
		out += fmt.Sprintf(" %#v", r.Authorizers)
	}
	if r.Session != (Session{}) {
		out += fmt.Sprintf(" %#v", r.Session)
	}
	if r.Picker != (mesh.Picker{}) {
		out += fmt.Sprintf(" %#v", r.Picker)
	}
	return out
}

// Authorizers lists the hosts of the authorizers of routes.
func Authorizers(routes []Route) (hosts []string) {
	for _, r := range routes {
		for _, a := range r.Authorizers {
			hosts = append(hosts, a.Host)
		}
	}
	return hosts
}

// Authorizer is a service that decides whether requests of a route may go on. If it cannot be asked, they may not.
type Authorizer struct {
	Host string // as a destination of the route
	Port uint32
	GRPC bool   // it speaks Envoy's protocol of external authorization; otherwise HTTP
	Path string // of HTTP: stands before the path of the request; empty, or with a slash at its beginning and none at its end
	// Headers are the names of the request's headers that the authorizer gets, in small letters. If there are none, an authorizer of gRPC
	// gets all of them. One of HTTP always gets the few that the API names.
	Headers []string
	// Copied are the names of headers of an HTTP authorizer's answer that the request gets, in small letters; none: all.
	Copied []string
	// Body is the size of the largest request body that the authorizer gets; requests with larger ones are refused. 0: it gets no bodies.
	Body uint32
}

// Session says how the requests of a client stay at one endpoint. The zero value keeps none. It is comparable.
type Session struct {
	Name   string        // of the cookie or header; empty: no requests are kept
	Header bool          // a header has the endpoint; otherwise a cookie
	Path   string        // that clients return the cookie for
	TTL    time.Duration // of the cookie; 0: it ends with the client's session
	Secure bool          // clients return the cookie only over TLS
}
