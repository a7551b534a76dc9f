// Package amend applies the patches of users' EnvoyFilters (networking/v1alpha3/envoy_filter.proto) to generated messages. The value of a
// patch is parsed once into a message. Then it is merged into a generated message or added beside it, or the patch removes that message.
// Everything here is pure. The package must not know which proxies a patch is for, nor where a message is sent.
package amend
