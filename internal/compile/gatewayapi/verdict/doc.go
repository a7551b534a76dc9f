// Package verdict has what the statuses of the Gateway API's objects say, in the API's own words: conditions, their reasons by problem, and
// the features that are carried out. It is pure: package gatewayapi finds out what is to be said.
package verdict
