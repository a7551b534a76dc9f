// Package envoy sends real HTTP and TCP traffic through stock Envoys that the control plane of this process configures:
// a test for every feature that is compiled, each with an assertion that fails when the traffic goes elsewhere. Package
// live, below, is the mesh they run in.
//
// If a case consists of rules, requests and their answers, it is a file of testdata/features: a script with the commands that
// script_test.go explains; a new one needs no Go. Other cases are tests in Go, with their rules in testdata.
//
// Features that do not get in each other's way share one mesh (TestFeatures), each under hosts of its own;
// TestStateOfTheWorld runs the same with Envoys that speak the other protocol. Tests that change the mesh as a whole,
// or must be watched under load, have a mesh of their own.
//
// The tests need an Envoy (make envoy, or ENVOY=/path) and are skipped without one, and with -short. Interception needs
// a network namespace of its own and is skipped where the kernel forbids that.
package envoy
