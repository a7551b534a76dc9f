package protocol

import "fairway/internal/xds/xdstest"

// The tests' resources, by the names that scripts are short with.
type spec = xdstest.Spec

var (
	cluster    = xdstest.Cluster
	edsCluster = xdstest.EDSCluster
	load       = xdstest.Load
	listener   = xdstest.Listener
	route      = xdstest.Route
	vhdsRoute  = xdstest.VHDSRoute
	host       = xdstest.Host
	secret     = xdstest.Secret
	gone       = xdstest.Gone
	members    = xdstest.Members
	readSpec   = xdstest.ReadSpec
	nackStatus = xdstest.Refusal
	allTypes   = xdstest.AllTypes
	field      = xdstest.Field
)
