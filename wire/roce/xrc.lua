-- XRC (InfiniBand specification volume 1, annex A14): extended reliable connections. Wireshark
-- reads the base transport header of opcodes 0xa0 to 0xb7, and nothing after it. Filter: xrc.
do
    local xrc = Proto("xrc", "Extended reliable connection (XRC)")
    local names = {
        [0x00] = "SEND First", [0x01] = "SEND Middle", [0x02] = "SEND Last", [0x03] = "SEND Last with Immediate",
        [0x04] = "SEND Only", [0x05] = "SEND Only with Immediate",
        [0x06] = "RDMA WRITE First", [0x07] = "RDMA WRITE Middle", [0x08] = "RDMA WRITE Last",
        [0x09] = "RDMA WRITE Last with Immediate", [0x0a] = "RDMA WRITE Only", [0x0b] = "RDMA WRITE Only with Immediate",
        [0x0c] = "RDMA READ Request", [0x0d] = "RDMA READ response First", [0x0e] = "RDMA READ response Middle",
        [0x0f] = "RDMA READ response Last", [0x10] = "RDMA READ response Only", [0x11] = "Acknowledge",
        [0x12] = "ATOMIC Acknowledge", [0x13] = "CmpSwap", [0x14] = "FetchAdd", [0x16] = "SEND Last with Invalidate", [0x17] = "SEND Only with Invalidate",
    }
    local f = {
        srq = ProtoField.uint24("xrc.srq", "Shared receive queue", base.DEC),
        va = ProtoField.uint64("xrc.va", "Virtual address", base.HEX),
        rkey = ProtoField.uint32("xrc.rkey", "Remote key", base.HEX),
        length = ProtoField.uint32("xrc.length", "Length of the message (bytes)", base.DEC),
        syndrome = ProtoField.uint8("xrc.syndrome", "Syndrome", base.HEX),
        msn = ProtoField.uint24("xrc.msn", "Message sequence number", base.DEC),
        swap = ProtoField.uint64("xrc.swap", "Swap or add", base.DEC),
        compare = ProtoField.uint64("xrc.compare", "Compare", base.DEC),
        original = ProtoField.uint64("xrc.original", "Original", base.DEC),
        imm = ProtoField.uint32("xrc.imm", "Immediate data", base.HEX),
        invalidate = ProtoField.uint32("xrc.invalidate", "Key to invalidate", base.HEX),
        icrc = ProtoField.bytes("xrc.icrc", "Invariant CRC"),
    }
    xrc.fields = f
    local BTH, ICRC, ROCE_PORT, XRC = 12, 4, 4791, 0xa0
    local writes = { [0x06] = true, [0x0a] = true, [0x0b] = true, [0x0c] = true } -- with a RETH
    local says = { [0x0d] = true, [0x0f] = true, [0x10] = true, [0x11] = true, [0x12] = true } -- with an AETH
    local immediate = { [0x03] = true, [0x05] = true, [0x09] = true, [0x0b] = true }
    local port, payload = Field.new("udp.dstport"), Field.new("udp.payload")

    -- show reads what UDP carries, as far as it is there.
    local function show(b, pinfo, root)
        local operation = b(0, 1):uint() - XRC
        local tree = root:add(xrc, b())
        local at = BTH
        local function field(name, skip, n)
            if b:len() >= at + skip + n then
                tree:add(f[name], b(at + skip, n))
            end
            at = at + skip + n
        end
        if operation < 0x0d or operation > 0x12 then
            field("srq", 1, 3)
        end
        if writes[operation] then
            field("va", 0, 8)
            field("rkey", 0, 4)
            field("length", 0, 4)
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
        elseif immediate[operation] then
            field("imm", 0, 4)
        elseif operation == 0x16 or operation == 0x17 then
            field("invalidate", 0, 4)
        end
        if b:len() >= at + ICRC then
            tree:add(f.icrc, b(b:len() - ICRC, ICRC))
        end
        pinfo.cols.protocol = "XRC"
        pinfo.cols.info = string.format("XRC %s QP=0x%06x PSN=%d", names[operation], b(5, 3):uint(), b(9, 3):uint())
    end

    function xrc.dissector(_, pinfo, root)
        local to, bytes = port(), payload()
        if to == nil or bytes == nil or to.value ~= ROCE_PORT then
            return
        end
        local b = bytes.range:tvb()
        if b:len() >= BTH and names[b(0, 1):uint() - XRC] ~= nil then
            show(b, pinfo, root)
        end
    end

    register_postdissector(xrc)
end
