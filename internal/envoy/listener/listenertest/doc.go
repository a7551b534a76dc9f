// Package listenertest helps tests look at listeners: a short text of what a listener does, and a real Envoy's opinion of it.
//
// It is imported by tests only, and must not know tables or rules.
package listenertest
