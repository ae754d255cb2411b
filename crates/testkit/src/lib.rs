//! Real servers for tests, generators and the conformance driver.
