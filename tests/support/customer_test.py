"""What tests of customers share: the replies of CUSTOMER GET and CUSTOMER LIST."""

from resp import pairs
from users import UsersTest


class CustomerTest(UsersTest):
    def customer(self, connection, name):
        return connection.map("CUSTOMER", "GET", name)

    def customers(self, connection, *options):
        """All customers that CUSTOMER LIST has, page by page."""
        rows, cursor = [], "0"
        while True:
            cursor, page = connection("CUSTOMER", "LIST", "CURSOR", cursor, *options)
            rows += map(pairs, page)
            if cursor == "0":
                return rows
