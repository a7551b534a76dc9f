// Package amend changes messages as users' EnvoyFilters say (networking/v1alpha3/envoy_filter.proto): a patch is read once
// into the message that it is made of, and then merged into, put beside or taken out of what was generated. Everything here
// is pure. The package must not know which proxies a patch is for, nor where a message is sent.
package amend
