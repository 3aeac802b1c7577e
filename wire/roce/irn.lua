-- IRN (Mittal et al., SIGCOMM 2018): reliable connections whose responder keeps packets
-- out of order, in opcodes 0xc0 to 0xdf of RoCEv2, which are left to manufacturers and
-- Wireshark does not know. Filter: irn.
do
    local irn = Proto("irn", "IRN")
    local names = {
        [0x00] = "SEND First", [0x01] = "SEND Middle", [0x02] = "SEND Last", [0x03] = "SEND Last with Immediate",
        [0x04] = "SEND Only", [0x05] = "SEND Only with Immediate",
        [0x06] = "RDMA WRITE First", [0x07] = "RDMA WRITE Middle", [0x08] = "RDMA WRITE Last",
        [0x09] = "RDMA WRITE Last with Immediate", [0x0a] = "RDMA WRITE Only", [0x0b] = "RDMA WRITE Only with Immediate",
        [0x0c] = "RDMA READ Request", [0x0d] = "RDMA READ response First", [0x0e] = "RDMA READ response Middle",
        [0x0f] = "RDMA READ response Last", [0x10] = "RDMA READ response Only", [0x11] = "Acknowledge",
        [0x12] = "ATOMIC Acknowledge", [0x13] = "CmpSwap", [0x14] = "FetchAdd", [0x16] = "SEND Last with Invalidate", [0x17] = "SEND Only with Invalidate",
        [0x18] = "Negative Acknowledge", [0x19] = "RDMA READ Acknowledge",
    }
    local opcodes = {}
    for operation, name in pairs(names) do
        opcodes[0xc0 + operation] = "IRN " .. name
    end
    local f = {
        opcode = ProtoField.uint8("irn.opcode", "Opcode", base.DEC, opcodes),
        ordered = ProtoField.bool("irn.ordered", "To be placed in order"),
        ack = ProtoField.bool("irn.ackreq", "Acknowledge request"),
        qp = ProtoField.uint24("irn.destqp", "Destination queue pair", base.HEX),
        psn = ProtoField.uint24("irn.psn", "Packet sequence number", base.DEC),
        va = ProtoField.uint64("irn.va", "Virtual address", base.HEX),
        rkey = ProtoField.uint32("irn.rkey", "Remote key", base.HEX),
        left = ProtoField.uint32("irn.left", "Left of the message (bytes)", base.DEC),
        syndrome = ProtoField.uint8("irn.syndrome", "Syndrome", base.HEX),
        msn = ProtoField.uint24("irn.msn", "Message sequence number", base.DEC),
        swap = ProtoField.uint64("irn.swap", "Swap or add", base.DEC),
        compare = ProtoField.uint64("irn.compare", "Compare", base.DEC),
        original = ProtoField.uint64("irn.original", "Original", base.DEC),
        imm = ProtoField.uint32("irn.imm", "Immediate data", base.HEX),
        invalidate = ProtoField.uint32("irn.invalidate", "Key to invalidate", base.HEX),
        receive = ProtoField.uint24("irn.receive", "Number of the receive request", base.DEC),
        packet = ProtoField.uint24("irn.packet", "Packet of the message", base.DEC),
        response = ProtoField.uint24("irn.response", "PSN that the response begins with", base.DEC),
        kept = ProtoField.uint24("irn.kept", "PSN of the packet that has come", base.DEC),
        icrc = ProtoField.bytes("irn.icrc", "Invariant CRC"),
    }
    irn.fields = f
    local BTH, ICRC, ROCE_PORT = 12, 4, 4791
    local says = { [0x0d] = true, [0x0f] = true, [0x10] = true, [0x11] = true, [0x12] = true, [0x18] = true } -- with an AETH
    local immediate = { [0x03] = true, [0x05] = true, [0x09] = true, [0x0b] = true }
    local port, payload = Field.new("udp.dstport"), Field.new("udp.payload")

    -- show reads what UDP carries, as far as it is there.
    local function show(b, pinfo, root)
        local operation = b(0, 1):uint() - 0xc0
        local tree = root:add(irn, b())
        tree:add(f.opcode, b(0, 1))
        tree:add(f.ordered, b(1, 1), bit.band(b(1, 1):uint(), 0x40) ~= 0)
        tree:add(f.qp, b(5, 3))
        tree:add(f.ack, b(8, 1), bit.band(b(8, 1):uint(), 0x80) ~= 0)
        tree:add(f.psn, b(9, 3))
        local at = BTH
        local function field(name, skip, n)
            if b:len() >= at + skip + n then
                tree:add(f[name], b(at + skip, n))
            end
            at = at + skip + n
        end
        if operation >= 0x06 and operation <= 0x0c then
            field("va", 0, 8)
            field("rkey", 0, 4)
            field("left", 0, 4)
        elseif operation == 0x13 or operation == 0x14 then
            field("va", 0, 8)
            field("rkey", 0, 4)
            field("swap", 0, 8)
            field("compare", 0, 8)
        elseif says[operation] then
            field("syndrome", 0, 1)
            field("msn", 0, 3)
        end
        if operation == 0x12 then
            field("original", 0, 8)
        end
        if immediate[operation] then
            field("imm", 0, 4)
        elseif operation == 0x16 or operation == 0x17 then
            field("invalidate", 0, 4)
        end
        if operation <= 0x05 or operation == 0x16 or operation == 0x17 then
            field("receive", 1, 3)
            field("packet", 1, 3)
        elseif operation == 0x0c or operation == 0x13 or operation == 0x14 then
            field("response", 1, 3)
        elseif operation == 0x18 or operation == 0x19 then
            field("kept", 1, 3)
        end
        if b:len() >= at + ICRC then
            tree:add(f.icrc, b(b:len() - ICRC, ICRC))
        end
        pinfo.cols.protocol = "IRN"
        pinfo.cols.info = string.format("%s QP=0x%06x PSN=%d", opcodes[0xc0 + operation], b(5, 3):uint(), b(9, 3):uint())
    end

    function irn.dissector(_, pinfo, root)
        local to, bytes = port(), payload()
        if to == nil or bytes == nil or to.value ~= ROCE_PORT then
            return
        end
        local b = bytes.range:tvb()
        if b:len() >= BTH and opcodes[b(0, 1):uint()] ~= nil then
            show(b, pinfo, root)
        end
    end

    register_postdissector(irn)
end
