// Package review finds out who calls by asking a Kubernetes API server about the token that was shown (TokenReview): the
// tokens that it projects into pods prove a service account, for the audience they are made for.
//
// A token is looked at before anybody is asked: what is none of a service account's, is for somebody else or has ended is
// refused here. What the API server said is believed for a minute at most, so that an account or a pod that is deleted is
// not let in for long; and several callers with one token are one question.
//
// Of several clusters each vouches for its own pods alone (Clusters).
//
// The package must not know what callers are given, nor what else of a cluster is read.
package review
