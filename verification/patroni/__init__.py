"""PostgreSQL under Patroni and etcd on machines that are network namespaces, and its faults."""
