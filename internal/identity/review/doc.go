// Package review authenticates callers by asking a Kubernetes API server about their token (TokenReview): the tokens that it projects into
// pods prove a service account, for their audience.
//
// A token is checked before the API server is asked: it is refused here if it is not a service account's, is for another audience or
// expired more than a day ago. The API server's answer is cached for a minute at most, so that a deleted account or pod is not admitted for
// long; and several callers with one token cause one request.
//
// If there are several clusters, each admits only its own pods (Clusters).
//
// The package must not know what callers get, nor other objects of a cluster.
package review
